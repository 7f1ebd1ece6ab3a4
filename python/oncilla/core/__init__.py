"""What a program holds of the cluster: sessions, allocations, exceptions, asyncio over them. Imports no other room."""
