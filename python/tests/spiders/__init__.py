"""Spiders that the tests run with the command scrapy."""
