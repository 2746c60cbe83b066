"""Options of ``holdfast serve`` that cannot be used, alone or together, are refused before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.main import main


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--no-auth", "--oidc", "oidc.yaml"], 2, "--no-auth asks nobody who they are"),
        (["--no-auth", "--trusted-header", "X-User", "--trusted-proxy", "10.0.0.1"], 2, "--no-auth asks nobody"),
        (["--trusted-header", "X-User"], 2, "needs --trusted-proxy"),
        (["--trusted-header", "X User", "--trusted-proxy", "10.0.0.1"], 2, "X-Forwarded-User"),
        (["--trusted-proxy", "proxy.example"], 2, "an address or a network"),
        (["--oidc", "missing.yaml"], 5, "missing.yaml: No such file"),
        (["--oidc", "good.yaml"], 5, "no secret NOWHERE is given"),
        (["--oidc", "bad.yaml"], 5, "bad.yaml:1:1: `client_id` is missing"),
    ],
)
def test_options_about_people_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, words: str
) -> None:
    """Each says what is wrong."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("issuer: https://id.example\n", encoding="utf-8")
    more = "client_id: x\nuser: sub\ntenant: acme\nclient_secret: NOWHERE\n"
    (tmp_path / "good.yaml").write_text(f"issuer: https://id.example\n{more}", encoding="utf-8")
    done = CliRunner().invoke(main, ["serve", "--port", "0", "--store", "memory://", *options])
    assert (done.exit_code, words in done.stderr) == (code, True), done.output
