"""In whose name something acts, and with which rights: by the routes that users use."""
