"""Random requests for every route, made from the OpenAPI document."""
