"""Types that the package hands out, and what it raises."""
