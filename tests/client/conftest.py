"""The tests of the client. Being here, this file puts the folder on the import path of those below."""
