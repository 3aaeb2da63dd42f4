"""What runs take: tokens counted, priced, limited and reserved. Calls no model."""
