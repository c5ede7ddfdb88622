"""Shows a report as one HTML page that needs no other file and no network. Computes nothing.

charts         A report's charts as SVG (best so far, candidates, lineage, roofline, bars, ratios)
details        The report's later sections, on floors, rejections, libraries, source, environment and cost
leaderboard    The leaderboard, and what is known for several problems, each as one HTML page
markup         Writes numbers, tables and text as HTML; everything that is not ours is escaped
report         A report's record as one HTML page
search_curves  Curves of searches as HTML pages, of a benchmark and of two repeated searches
sections       The report's first sections
svg            The frame of an SVG chart, its scales, ticks and axes, and a colour and a mark for each family
"""
