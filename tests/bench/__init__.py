"""Tests of the bench: statistics, failing rivals, the generator's judgement, the reports."""
