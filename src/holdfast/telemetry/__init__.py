"""What leaves the engine for those who watch it: traces for OpenTelemetry, and lines for logs.

Nothing here decides anything, and nothing is loaded unless it is asked for. Metrics are the server's.
"""

from holdfast.telemetry.log_lines import JsonFormatter, RunContext

__all__ = ["JsonFormatter", "RunContext"]
