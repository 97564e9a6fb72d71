"""Amazon SQS's protocols, served beside gRPC and HTTP: the same queues, by the operations of SQS."""
