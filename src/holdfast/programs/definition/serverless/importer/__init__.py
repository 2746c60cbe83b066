"""From a document to a definition: ``workflow`` has all of it, ``lists`` the order of tasks, ``tasks`` what every task
may have; each kind of task is in the module of its topic."""
