"""What a run tells the service that started it: JUnit with times, annotations and a summary of a job."""
