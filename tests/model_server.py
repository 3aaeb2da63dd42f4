"""The suite's scripted provider with the formats of OpenAI and Gemini beside Anthropic's."""

from scenarios.provider import server
from tests.formats import chat, gemini, responses


class ModelServer(server.ModelServer):
    formats = (
        *server.ModelServer.formats,
        ("/responses", responses, False),
        ("/responses/input_tokens", responses, True),
        ("/chat/completions", chat, False),
        (":generateContent", gemini, False),
        (":streamGenerateContent", gemini, False),
        (":countTokens", gemini, True),
    )
