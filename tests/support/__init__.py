"""What tests share: scripted models, loopback servers, made-up runs."""
