"""The Iceberg REST protocol over HTTP: routes, plans that are under way, errors as clients read them."""
