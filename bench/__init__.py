"""What an informer costs, beside a floor and its peers: `python -m bench` prints a table and writes JSON and an SVG."""
