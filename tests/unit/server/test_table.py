"""The table of routes is whole: every route is documented, named, judged, and has an example."""

from __future__ import annotations

import jsonschema_rs

from holdfast import Holdfast
from holdfast.people.permissions import LEAST
from holdfast.server import Server
from holdfast.server.route import Route
from holdfast.server.routes.table import ROUTES, SUBJECTS
from tests.tables import table
from tests.unit.server.requests import EXAMPLES


@table("route", ROUTES, ids=lambda route: route.name)
def test_every_route_says_what_it_does_and_who_may(route: Route) -> None:
    """The words are a sentence, the operation has a level, the section is known."""
    assert route.words.endswith(".")
    assert route.operation in LEAST
    assert route.subject in SUBJECTS
    assert route.path.startswith("/v1/")


def test_routes_have_names_of_their_own_and_examples() -> None:
    """Generated clients call them by these; the tests of permission ask for each."""
    names = [route.name for route in ROUTES]
    assert len(set(names)) == len(names)
    assert set(EXAMPLES) == set(names)


def test_a_method_that_changes_is_not_get() -> None:
    """What only looks is asked for by GET, or says so."""
    for route in ROUTES:
        looks = route.operation.endswith((".see", ".see_own", ".see_self", ".check", ".import"))
        assert route.changes != looks, route.name


def test_the_document_describes_every_route_and_every_schema_is_one() -> None:
    """It has all operations with their parameters, and no reference that leads nowhere."""
    server = Server(Holdfast("memory://", worker=False))
    document = server.document("/prefix")
    found = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert found == {(route.path, route.method.lower()) for route in (*server.routes, *server.public)}
    assert document["servers"] == [{"url": "/prefix"}]
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        jsonschema_rs.Draft202012Validator({**schema, "components": {"schemas": schemas}})
        assert "$ref" not in schema, name
    for route in ROUTES:
        parameters = document["paths"][route.path][route.method.lower()]["parameters"]
        assert [each["name"] for each in parameters if each["in"] == "path"] == list(route.parameters)
