"""Parts of a reply: reasons why it ended, tool calls, thoughts, what the server reports of itself."""
