"""Wire formats of the model bridge. They turn the bytes of a program's request into typed values,
and typed values back into bytes.

Each format is a module with `read` (body to `BridgeRequest`), `write` (`Reply` to body) and
`stream` (`Reply` to events). All of these are pure functions. The declarations of a format, such as
its errors, the fields that it refuses and the templates of its answers, are in a file in `forms`.

* **Read**: the model's name, turns, calls with their ids and results, tools and which must be
  called, the reply's schema, limits, stop texts, whether to stream.
* **Mapped**: a `developer` turn becomes a `system` turn; leading ones are joined, later ones keep
  their position. A tool in a namespace becomes `NAMESPACE__NAME`, a tool of free text one with a
  parameter `input`; both go back as the program knows them. Gemini's calls without ids are
  numbered.
* **Applied here**: stop texts cut the reply, since the run's models take none.
* **Passed on**: settings of the program (`BridgeRequest.own`), such as limits, reasoning, effort,
  sampling and cache keys. A program gets thoughts with a mark and sends them back with it.
* **Ignored**, and named in `BridgeRequest.ignored`: unknown fields that change no text that the
  model sees, such as metadata, and cache marks, which the run sets itself. Also a required call if
  there are several tools: the run's models can be forced to only one tool by name.
* **Refused**, with a list of what is supported: images, audio and files, tools of a provider,
  stored conversations, several replies, log probabilities.
"""
