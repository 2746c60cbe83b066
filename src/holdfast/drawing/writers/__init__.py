"""A picture as SVG, PNG, JSON or Mermaid text."""
