"""``Console``: makes routes of the tables of pages and forms, and shows pages, refusals and errors.

A page is shown in this order: its ``load`` gives what the template needs; what all pages have is added; the template is
rendered. The script of a page that is open fetches it again when something has changed, and exchanges its live parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast.client.engine import Holdfast
from holdfast.client.people.permission import CallerChanged
from holdfast.errors import CallerError, HoldfastError, LoginTooOld, NotTheOperator
from holdfast.runs.addresses import path_part
from holdfast.server import problems
from holdfast.server.api import as_problem, wants_page
from holdfast.server.call import RouteCall
from holdfast.server.console import cookies
from holdfast.server.console.assets import ASSETS, asset_routes
from holdfast.server.console.login import Login, check_size
from holdfast.server.console.page import ConsoleForm, ConsolePage, ShownInstead
from holdfast.server.console.pages.table import FORMS, NAVIGATION, PAGES
from holdfast.server.console.templating import Paths, environment
from holdfast.server.console.typed import text_of
from holdfast.server.openid.settings import OpenIdSettings
from holdfast.server.public import PublicRoute
from holdfast.server.route import Route
from holdfast.server.router import path_of
from holdfast.server.routes.installation import Me, me
from holdfast.server.settings import ServerSettings
from holdfast.server.step_up import PROOF, GiveCookie, check_login
from holdfast.tasks.files import FILES_LIMIT

HTML: Final = "text/html"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""A page loads its style, script and pictures from this server, and nothing from elsewhere; nothing inline is run."""

_REFRESH: Final = "x-holdfast-refresh"
"""The header by which the script fetches a page again. Nobody reads that answer whole, so what is said once is kept."""

_RENEWED: Final = "renewed_login"
"""Where a request has what its new login is to be known by."""

MOST_FIELDS: Final = 2000
INBOX_SHOWN: Final = 10
MOST_READ: Final = 2000
"""For the number beside *Tasks*, no page looks through more open tasks than these."""


class Console:
    """The pages of one engine."""

    def __init__(self, app: Holdfast, settings: ServerSettings, openid: OpenIdSettings | None = None) -> None:
        self._app = app
        self._settings = settings
        self._login = Login(app, settings, self.render, openid)
        self.routes: tuple[Route, ...] = (*map(self._page_route, PAGES), *map(self._form_route, FORMS))
        self.public: tuple[PublicRoute, ...] = (
            *asset_routes(),
            *self._login.routes,
            PublicRoute(method="GET", path="/", words="Leads to the runs.", handler=self._home),
        )

    def invite(self) -> str:
        """The path of a page, good once, on which the first user is made."""
        return self._login.invite()

    # -- routes ----------------------------------------------------------------------------------------------------

    def _page_route(self, page: ConsolePage) -> Route:
        return Route(
            method="GET",
            path=page.path,
            operation=page.operation,
            words=page.words,
            handler=partial(self._show, page),
            query=page.query,
            media=(HTML,),
            data=page.data,
        )

    def _form_route(self, form: ConsoleForm) -> Route:
        return Route(
            method="POST",
            path=form.path,
            operation=form.operation,
            words=form.words,
            handler=partial(self._submit, form),
            media=(HTML,),
            only_looks=form.only_looks,
            checks_login=True,
        )

    async def _home(self, request: Request) -> Response:
        return RedirectResponse(Paths(request.scope.get("root_path", ""))("runs"), 303)

    # -- pages -----------------------------------------------------------------------------------------------------

    async def _show(self, page: ConsolePage, call: RouteCall[Any, None]) -> Response:
        context = await page.load(call)
        if isinstance(context, Response):
            return context
        return await self._rendered(call, page, page.template, context)

    async def _submit(self, form: ConsoleForm, call: RouteCall[Any, None]) -> Response:
        check_size(call.request, 2 * FILES_LIMIT)
        async with call.request.form(max_fields=MOST_FIELDS, max_files=100, max_part_size=4 * 2**20) as typed:
            response = await self._acted(form, call, typed)
        renewed: GiveCookie | None = getattr(call.request.state, _RENEWED, None)
        if renewed is not None:
            await renewed(response, call.request)
        return response

    async def _acted(self, form: ConsoleForm, call: RouteCall[Any, None], typed: FormData) -> Response:
        try:
            await self._check_login(form, call, typed)
            done = await form.act(call, typed)
        except CallerChanged:
            raise
        except CallerError as error:
            return await self._again(form, call, error, typed)
        if isinstance(done, ShownInstead):
            return await self._rendered(call, form.page, done.template, done.context, status=done.status)
        response = RedirectResponse(Paths(call.request.scope.get("root_path", ""))(*done.path, **done.query), 303)
        if done.words:
            cookies.say(response, call.request, done.words)
        return response

    async def _check_login(self, form: ConsoleForm, call: RouteCall[Any, None], typed: FormData) -> None:
        """A form that needs a fresh login may bring the proof with it. Raises LoginTooOld."""
        if hasattr(call.request.state, _RENEWED):
            return  # it is judged once more
        try:
            await check_login(call, form.operation, changes=not form.only_looks)
        except LoginTooOld:
            proof, login = text_of(typed, PROOF), call.acting.login
            if not proof or login is None or login.renew is None:
                raise
            setattr(call.request.state, _RENEWED, await self._login.renew(call.request, login.renew, proof))

    async def _again(
        self, form: ConsoleForm, call: RouteCall[Any, None], error: CallerError, typed: FormData
    ) -> Response:
        """The page once more, with what was typed and why it was refused. For a login that is too old it has what was
        typed as a form of its own, which asks for the proof and sends all of it."""
        call.query = form.page.query()
        sent = [(name, text) for name, text in typed.multi_items() if isinstance(text, str) and name != PROOF]
        values = dict(sent)
        try:
            context = await form.page.load(call)
        except CallerError:
            raise error from None
        if isinstance(context, Response):
            raise error
        problem = problems.problem_of(error, "")
        more = {**context, "problem": problem, "typed": values}
        if isinstance(error, LoginTooOld) and call.acting.login is not None:
            parts = [path_part(each.format_map(call.path)) for each in form.page.path.strip("/").split("/")]
            to = f"/{'/'.join(parts)}"
            more["step_up"] = {"way": call.acting.login.way, "sent": sent, "to": to, **self._login.provider}
        return await self._rendered(call, form.page, form.page.template, more, status=error.http_status)

    async def _rendered(
        self,
        call: RouteCall[Any, None],
        page: ConsolePage,
        template: str,
        context: Mapping[str, Any],
        *,
        status: int = 200,
    ) -> Response:
        who = await me(call)
        inbox = None
        if who.user and "inbox_count" not in context:  # a page that has read the inbox says what is in it
            tasks = call.client.tasks
            inbox = await tasks.inbox(by=call.by, tenant=call.tenant, limit=INBOX_SHOWN, most_read=MOST_READ)
        more = {
            "me": who,
            "page": page,
            "inbox_count": 0 if inbox is None else len(inbox.items),
            "may": partial(self._may, who),
            "logged_in": call.acting.proof == "cookie",
            **context,
        }
        return self.render(call.request, template, more, status=status)

    def _may(self, who: Me, operation: str) -> bool:
        return operation in who.operations and not self._settings.read_only

    def render(self, request: Request, template: str, context: Mapping[str, Any], *, status: int = 200) -> Response:
        """A page. Public pages use it, too: what only somebody known has is empty there."""
        values = {
            "me": None,
            "page": None,
            "problem": None,
            "typed": {},
            "inbox_count": 0,
            "logged_in": False,
            "may": lambda _: False,
            "read_only": self._settings.read_only,
            "path": Paths(request.scope.get("root_path", "")),
            "address": path_of(request.scope),
            "query": dict(request.query_params),
            "now": datetime.now(UTC),
            "said": cookies.said(request),
            "navigation": NAVIGATION,
            "assets": ASSETS,
            **context,
        }
        text = environment().get_template(template).render(values)
        response = Response(text, status, {"Content-Security-Policy": POLICY, "Vary": "Accept"}, HTML)
        if _REFRESH not in request.headers:
            cookies.unsay(response, request)
        return response

    # -- errors ----------------------------------------------------------------------------------------------------

    def fail(self, error: HoldfastError, request: Request) -> Response:
        """A page that says what went wrong; for programs a problem as JSON. Who is not known is asked to log in."""
        is_person = "text/html" in request.headers.get("accept", "") and wants_page(request)
        if not is_person:
            return as_problem(error, request)
        has_login = error.http_status == 401 and not isinstance(error, NotTheOperator)
        if has_login and _REFRESH not in request.headers:
            paths = Paths(request.scope.get("root_path", ""))
            path = path_of(request.scope)
            here = f"{path}?{request.url.query}" if request.url.query else path
            return RedirectResponse(paths("login", to=here if request.method == "GET" and here != "/" else None), 303)
        problem = problems.problem_of(error, path_of(request.scope))
        return self.render(request, "problem.html", {"problem": problem}, status=problem.status)
