"""What a worker does for lanes beside taking their turns: it brings them cells, and watches their manifests."""
