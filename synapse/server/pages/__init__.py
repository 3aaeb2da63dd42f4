"""Pages for people: what a team knows and does, in a browser, as HTML from templates.

Each page asks the library as whoever is logged in; nothing here decides who may see what. An
extension adds pages, links and cards by `frame.frame_of(app)`.
"""
