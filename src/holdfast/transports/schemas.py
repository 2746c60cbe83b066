"""JSON Schemas of what a definition says to Holdfast's own transports, for its compiler and for editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.transports.connectors import METHODS, NAME
from holdfast.transports.secrets import NAME as SECRET_NAME

Schema = Mapping[str, Any]

EXPRESSION: Final[Schema] = {"type": "string", "pattern": "^=", "description": "an expression"}


def evaluated(schema: Schema, words: str = "") -> Schema:
    """A value, or the expression that gives it."""
    return _said({"anyOf": [EXPRESSION, schema]}, words)


def _said(schema: Schema, words: str) -> Schema:
    """A schema with what it means, for editors and readers."""
    return {**schema, "description": words} if words else schema


_TEXT: Final[Schema] = {"type": "string"}
_SCALAR: Final[Schema] = {"type": ["string", "number", "boolean", "null"]}
_MAP: Final[Schema] = {"type": "object"}
_SECRET: Final[Schema] = {"type": "string", "pattern": f"^{SECRET_NAME.pattern}$", "description": "a secret's name"}
_HEADERS: Final[Schema] = {"type": "object", "additionalProperties": _SCALAR}
_SECRET_HEADERS: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [_TEXT, {"type": "object", "properties": {"secret": _SECRET}, "required": ["secret"]}]
    },
}
_STATUSES: Final[Schema] = {
    "type": "array",
    "items": {
        "anyOf": [{"type": "integer", "minimum": 100, "maximum": 599}, {"type": "string", "pattern": "^[1-5]xx$"}]
    },
}
_REDIRECT: Final[Schema] = {"anyOf": [{"type": "boolean"}, {"type": "array", "items": _TEXT}]}
_GIVE: Final[Schema] = {"enum": ["content", "response", "raw"]}
_QUERY: Final[Schema] = {
    "type": "object",
    "additionalProperties": {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]},
}

_VALUE: Final[Schema] = {
    "type": "object",
    "properties": {"value": evaluated(_TEXT)},
    "required": ["value"],
    "additionalProperties": False,
}

OWN_AUTH: Final[Schema] = {
    "type": "object",
    "description": "Who sends it, by values that the run has; a secret is named in a connector.",
    "properties": {
        "bearer": _VALUE,
        "basic": {
            "type": "object",
            "properties": {"username": evaluated(_TEXT), "password": _VALUE},
            "required": ["username", "password"],
            "additionalProperties": False,
        },
        "header": {
            "type": "object",
            "properties": {"name": _TEXT, "value": _VALUE},
            "required": ["name", "value"],
            "additionalProperties": False,
        },
    },
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}

COMMON: Final[Schema] = {
    "headers": evaluated(_HEADERS, "Headers, by name."),
    "key": evaluated({"type": ["string", "number"]}, "The idempotency key that is sent; one of its own if not said."),
    "timeout": evaluated({"type": "number", "exclusiveMinimum": 0}, "The limit of one attempt, in seconds."),
    "accept": evaluated(_STATUSES, "Statuses that are no failure, such as 404 or 4xx."),
    "redirect": evaluated(_REDIRECT, "Whether redirects are followed, or the hosts to which they may lead."),
    "give": _said(_GIVE, "What the result is: the content, the whole response, or its bytes."),
}
"""What any request may say."""

CALL: Final[Schema] = {
    "type": "object",
    "properties": {
        "call": {"type": "string", "pattern": r"^[^.]+\.[^.]+$", "description": "A connector and its operation."},
        "with": evaluated(_MAP, "The arguments of the operation, by name."),
        **COMMON,
    },
    "required": ["call"],
    "additionalProperties": False,
}
"""A request by connector and operation."""

HTTP: Final[Schema] = {
    "anyOf": [
        CALL,
        {
            "type": "object",
            "properties": {
                **{method: {"type": "string", "description": "A URL, or an expression."} for method in METHODS},
                "query": evaluated(_QUERY, "What is added to the URL, by name."),
                "json": {"description": "The body, as JSON."},
                "form": evaluated(_QUERY, "The body, as the fields of a form."),
                "body": _said(_TEXT, "The body, as a text."),
                "auth": OWN_AUTH,
                **COMMON,
            },
            "oneOf": [{"required": [method]} for method in METHODS],
            "additionalProperties": False,
        },
    ]
}

GRAPHQL: Final[Schema] = {
    "anyOf": [
        CALL,
        {
            "type": "object",
            "properties": {
                "endpoint": {"type": "string", "description": "A URL, or an expression."},
                "query": _said(_TEXT, "The document."),
                "variables": evaluated(_MAP, "Its variables, by name."),
                "operation": evaluated(_TEXT, "Which operation of the document is meant."),
                "auth": OWN_AUTH,
                **COMMON,
            },
            "required": ["endpoint", "query"],
            "additionalProperties": False,
        },
    ]
}

_OPERATION: Final[Schema] = {
    "type": "object",
    "properties": {
        **{method: {"type": "string", "pattern": "^/", "description": "A path behind the base."} for method in METHODS},
        "graphql": _said(_TEXT, "The document of a GraphQL operation."),
        "writes": {"type": "boolean", "description": "Whether it changes anything."},
        "risk": {"enum": ["low", "med", "high"], "description": "How much can go wrong."},
        "safe_to_retry": {"type": "boolean", "description": "Whether doing it twice is the same as once."},
        "not_done": {
            "type": "array",
            "items": {"type": "integer", "minimum": 400, "maximum": 599},
            "description": "Statuses by which the service says that it did nothing.",
        },
        "query": {"type": "array", "items": _TEXT, "description": "Arguments that are sent in the URL."},
        "headers": _said(_SECRET_HEADERS, "Headers; a secret one is `{secret: NAME}`."),
        "accept": _said(_STATUSES, "Statuses that are no failure."),
        "redirect": _said(_REDIRECT, "Whether redirects are followed, or the hosts to which they may lead."),
        "give": _said(_GIVE, "What the result is."),
    },
    "oneOf": [{"required": [word]} for word in (*METHODS, "graphql")],
    "additionalProperties": False,
}

CONNECTORS: Final[Schema] = {
    "type": "object",
    "propertyNames": {"pattern": f"^{NAME.pattern}$"},
    "additionalProperties": {
        "type": "object",
        "properties": {
            "base": {"type": "string", "pattern": "^https?://", "description": "The address of the service."},
            "auth": {
                "type": "object",
                "description": "Who calls, by the name of a secret: `bearer`, `basic` or `header`.",
                "properties": {
                    "bearer": _SECRET,
                    "basic": {
                        "type": "object",
                        "description": "A user name, and a secret as the password.",
                        "properties": {"username": _TEXT, "password": _SECRET},
                        "required": ["username", "password"],
                        "additionalProperties": False,
                    },
                    "header": {
                        "type": "object",
                        "description": "A header whose value is a secret.",
                        "properties": {"name": _TEXT, "value": _SECRET},
                        "required": ["name", "value"],
                        "additionalProperties": False,
                    },
                },
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": False,
            },
            "headers": _said(_SECRET_HEADERS, "Headers of every request; a secret one is `{secret: NAME}`."),
            "operations": {
                "type": "object",
                "description": "What the service does, by name: a method with a path, or a GraphQL document.",
                "propertyNames": {"pattern": f"^{NAME.pattern}$"},
                "additionalProperties": _OPERATION,
            },
        },
        "required": ["base", "operations"],
        "additionalProperties": False,
    },
}
"""The ``connectors:`` of a definition."""
