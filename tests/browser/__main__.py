"""Installs the browser that the page's tests need, where that is possible; says so where it is not."""

from browser.chromium import main

main()
