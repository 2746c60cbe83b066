"""Templates for code without an event loop.

Each method is that of the asynchronous class, waited for: its signature and its types come from there.
"""

from __future__ import annotations

from typing import Any

from holdfast.client.loop_thread import LoopThread
from holdfast.client.sync.calls import each_of, waited
from holdfast.client.sync.engine import SyncRunHandle
from holdfast.client.templates.app_templates import AppTemplates


class SyncTemplates:
    """Templates: each method is that of ``AppTemplates``, waited for."""

    def __init__(self, loop: LoopThread, templates: AppTemplates) -> None:
        self._loop = loop
        self._part = templates

    create = waited(AppTemplates.create)
    new_version = waited(AppTemplates.new_version)
    activate = waited(AppTemplates.activate)
    pause = waited(AppTemplates.pause)
    resume = waited(AppTemplates.resume)
    archive = waited(AppTemplates.archive)
    show = waited(AppTemplates.show)
    list = each_of(AppTemplates.list)
    page = waited(AppTemplates.page)
    instances = each_of(AppTemplates.instances)
    instances_page = waited(AppTemplates.instances_page)
    instance = waited(AppTemplates.instance)

    def start(self, template: str, input: object = None, **options: Any) -> SyncRunHandle[Any]:
        """See ``AppTemplates.start``."""
        return SyncRunHandle(self._loop, self._loop.call(self._part.start(template, input, **options)))
