"""Reports made from figures: JSON, Markdown, HTML, terminal."""
