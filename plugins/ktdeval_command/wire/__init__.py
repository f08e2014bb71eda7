"""Wire formats of the model bridge: bytes of a program's request in, typed values out, and back.

Each format is a module with `read` (body to `BridgeRequest`), `write` (`Reply` to body) and `stream`
(`Reply` to events). All are pure. What a format declares, such as its errors, the fields that it
refuses and the templates of its answers, is a file of `forms`.

* **Read**: the model's name, turns, calls with their ids and results, tools and which must be
  called, the reply's schema, limits, stop texts, whether to stream.
* **Mapped**: a `developer` turn is one of `system`; leading ones are one message, later ones keep
  their place. A tool in a namespace is `NAMESPACE__NAME`, a tool of free text one with a parameter
  `input`; both go back as the program knows them. Gemini's calls without ids are numbered.
* **Applied here**: stop texts cut the reply, since the run's models take none.
* **Passed on**: settings of the program (`BridgeRequest.own`), such as limits, reasoning, effort,
  sampling and keys of caches. Thoughts, which a program gets with a mark and sends back with it.
* **Ignored**, and named in `BridgeRequest.ignored`: whatever changes no text that the model sees
  and is not known, such as metadata and marks of caches, which the run sets itself. Also a required
  call where several tools could be it: the run's models are forced to one by name.
* **Refused**, with what is supported: images, audio and files, tools of a provider, stored
  conversations, several replies, log probabilities.
"""
