"""What tests share: worlds, stub servers, reference calculations and readers of pages."""
