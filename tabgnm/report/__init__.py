"""Reports about fitted estimators as single HTML files."""
