"""Functions that expressions in jq find beside jq's own. They are part of the language: what they give never changes.

======================  ==============================================================================================
``now``                 a recorded time, in seconds since 1970
``problem(places)``     an error of a node as problem details (``type``, ``status``, ``title``, ``detail``,
                        ``instance``); ``places`` has the instance of each node
``error_kind``          a type of errors without the address that it stands at: versions of the specification differ
``caught(filter)``      whether problem details fit a filter
``event``               a signal's value as an event: its envelope where it has one, else one with the value as data
``openapi(…; …; …)``    the request that an operation of an OpenAPI document means, with these parameters
======================  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_ERRORS: Final = "https://serverlessworkflow.io/spec/1.0.0/errors/"

_ERROR_KIND: Final = r"""
def error_kind: if type == "string"
  then sub("^https://serverlessworkflow\\.io/(spec/[0-9.]+/errors|dsl/errors/types|errors/types|errors)/"; "")
  else . end;
"""

_PROBLEM: Final = f"""
def problem($places): . as $e
  | (if ($e.details | type) == "object" then $e.details else {{}} end) as $d
  | if ($d.type | type) == "string" and ($d.status | type) == "number" then $d
    else (
      if $d.status != null and ($e.class == "transport" or $e.class == "authorisation")
        then ["communication", $d.status, "Communication Error"]
      elif $e.class == "transport" then ["communication", 500, "Communication Error"]
      elif $e.class == "timeout" then ["timeout", 408, "Timeout Error"]
      elif $e.class == "authorisation" then ["authorization", 403, "Authorization Error"]
      elif $e.class == "expression" then ["expression", 400, "Expression Error"]
      elif $e.class == "definition" then ["configuration", 400, "Configuration Error"]
      else ["runtime", 500, "Runtime Error"] end) as [$kind, $status, $title]
      | {{type: ("{_ERRORS}" + $kind), status: $status, title: $title, detail: $e.message,
         instance: $places[$e.node]}}
    end;
"""

_CAUGHT: Final = """
def caught($filter): . as $problem
  | all($filter | to_entries[];
      if .key == "type" then ($problem.type | error_kind) == (.value | error_kind)
      elif .key == "details" then $problem.detail == .value
      else $problem[.key] == .value end);
"""

_EVENT: Final = """
def event: if type == "object" and has("specversion") then . else {data: .} end;
"""

_OPENAPI: Final = """
def openapi($document; $operation; $given): $document
  | ([.paths | to_entries[] | .key as $path | .value | to_entries[]
      | select((.value | type) == "object" and .value.operationId == $operation)
      | {path: $path, method: .key, declared: .value}][0]
     // error("the document has no operation \\($operation)")) as $found
  | (if .openapi then (.servers[0].url // error("the document has no server"))
     else ((.schemes[0] // "https") + "://" + (.host // error("the document has no host")) + (.basePath // "")) end
     | rtrimstr("/")) as $base
  | ([($document.paths[$found.path].parameters // [])[], ($found.declared.parameters // [])[]]
     | map(if has("$ref") then (.["$ref"] | ltrimstr("#/") | split("/")) as $at | $document | getpath($at) else . end)
    ) as $parameters
  | ($parameters | map(select(.required == true and (.in != "body") and $given[.name] == null) | .name)) as $missing
  | (if $missing == [] then . else error("\\($operation) wants \\($missing | join(", "))") end)
  | (reduce ($parameters[] | select(.in == "path")) as $one
      ($found.path; gsub("\\\\{" + $one.name + "\\\\}"; ($given[$one.name] | tostring | @uri)))) as $path
  | (reduce ($parameters[] | select(.in == "query" and $given[.name] != null)) as $one
      ({}; .[$one.name] = $given[$one.name])) as $query
  | (reduce ($parameters[] | select(.in == "header" and $given[.name] != null)) as $one
      ({}; .[$one.name] = ($given[$one.name] | tostring))) as $headers
  | (if $found.declared.requestBody then
       ($given.body // ($given | with_entries(select(.key as $name | $parameters | all(.name != $name)))))
     else ([$parameters[] | select(.in == "body") | $given[.name]][0]) end) as $body
  | {($found.method): ($base + $path)}
    + (if $query == {} then {} else {query: $query} end)
    + (if $headers == {} then {} else {headers: $headers} end)
    + (if $body == null then {} else {json: $body} end);
"""

FUNCTIONS: Final = {
    "error_kind": _ERROR_KIND,
    "problem": _PROBLEM,
    "caught": _CAUGHT,
    "event": _EVENT,
    "openapi": _OPENAPI,
}

_NEEDS: Final = {"caught": ("error_kind",)}


def prelude(called: Collection[str]) -> str:
    """The definitions of those functions that are called, and of what they call, on one line."""
    needed = {name for word in called if word in FUNCTIONS for name in (word, *_NEEDS.get(word, ()))}
    return " ".join("".join(FUNCTIONS[name] for name in FUNCTIONS if name in needed).split("\n"))
