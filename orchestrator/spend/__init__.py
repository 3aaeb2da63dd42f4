"""The cost of runs: tokens counted, labelled, priced, limited and reserved. Calls no model."""
