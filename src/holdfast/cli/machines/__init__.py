"""Commands about machines: their manifests, and what is proposed for them."""
