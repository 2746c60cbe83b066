"""What stands between a request and its route: rates, the origin of a browser's request, headers of every answer."""
