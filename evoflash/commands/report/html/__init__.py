"""A report's record as one HTML page: no other file, no network, readable without JavaScript.

page        the page: head, sections in their order, the record itself
sections    the winner, its progress, the candidates
learnt      what values are worth, and why the winner won
details     floors, rejections, libraries, source, environment
markup      numbers, tables and text as HTML
frame       an SVG chart's frame: scales, ticks, axes
charts      charts over a frame: best so far, every candidate, roofline, lineage
bars        charts in rows: bars, and values with their intervals
palette     a family's colour and shape
style.css   colours for light and dark, narrow screens, print
page.js     hovering, sorting, filtering
"""
