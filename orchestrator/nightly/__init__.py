"""What is done once a night: the schedule, the job, and what a model proposes for it."""
