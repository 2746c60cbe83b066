"""An example of each verb, for editors and for the reference."""

from __future__ import annotations

from typing import Any, Final

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "action": {"action": "payout.pay", "with": {"sum": "=state.total"}, "undo": "payout.cancel"},
    "check": {"check": "=state.answer", "schema": {"type": "object", "required": ["decision"]}},
    "compensate": {"compensate": "pay"},
    "continue": {"continue": "claims.archive", "with": {"claimNo": "=start.claimNo"}},
    "do": {"do": [{"get": {"wait": "documents"}}], "timeout": "30d", "on": {"timeout": []}},
    "end": {"end": {"decision": "=state.answer.decision"}},
    "fork": {"fork": {"stock": [{"count": {"step": "stock.count"}}], "papers": [{"docs": {"wait": "documents"}}]}},
    "graph": {
        "graph": {"pay": {"action": "payout.pay"}, "tell": {"needs": ["pay"], "run": "letters.send@^2"}},
    },
    "graphql": {
        "graphql": {"endpoint": "https://g.example/graphql", "query": "{ rates { eur } }"},
        "as": "state.rates",
    },
    "http": {"http": {"get": "https://s.example/stock"}, "as": "state.stock", "timeout": {"try": "30s", "all": "1h"}},
    "pick": {"pick": {"paid": {"wait": "payment"}, "late": {"sleep": "7d", "do": [{"no": {"raise": "UNPAID"}}]}}},
    "raise": {"raise": {"code": "SLOW", "message": '="no answer for " + start.claimNo'}},
    "repeat": {
        "repeat": {"over": "=start.items", "item": "line"},
        "do": [{"add": {"set": {"state.total": "=state.total + line.amount"}}}],
    },
    "run": {"run": "letters.send", "with": {"to": "=start.person"}, "as": "state.letter"},
    "send": {"send": {"to": "=start.parent", "signal": "done", "value": {"total": "=state.total"}}},
    "set": {"set": {"state.total": "=state.total + 1", "reference": "=start.claimNo"}},
    "sleep": {"sleep": "2h"},
    "step": {"step": "fraud.score", "with": {"items": "=start.items"}, "as": "state.score", "retry": {"max": 5}},
    "switch": {
        "switch": [
            {"when": "=state.score > 0.5", "do": [{"ask": {"task": "approve", "as": "state.answer"}}]},
            {"else": [{"auto": {"set": {"state.answer": {"decision": "approve"}}}}]},
        ]
    },
    "task": {"task": "approve", "as": "state.answer"},
    "transport": {"transport": {"sap": {"order": "=start.order"}}},
    "wait": {"wait": "documents", "key": "=start.claimNo", "as": "state.documents", "timeout": "30d"},
}
