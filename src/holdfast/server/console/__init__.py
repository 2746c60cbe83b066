"""The console: pages for people, made on the server from the same views as the API's answers.

``pages/`` has a module for each subject, each with a tuple of pages and forms; ``templates/`` what they look like;
``assets/`` one style sheet and one script of our own. A page holds no logic that a client would need.
"""
