// Removes from generated traces what differs in every run (dates, file names), so that equal traces are equal files.
import { readFileSync, writeFileSync } from "node:fs";

for (const path of process.argv.slice(2)) {
  const trace = JSON.parse(readFileSync(path, "utf8"));
  trace["#meta"] = { format: "ITF", status: trace["#meta"].status };
  writeFileSync(path, JSON.stringify(trace) + "\n");
}
