// Package openai is a client for OpenAI and other endpoints with its chat completions or its Responses API: Azure, Ollama, vLLM, llama.cpp, LM Studio,
// OpenRouter, Gemini's compatible endpoint, and many more. They agree about requests, less about answers, and hardly about errors, so the package
// normalises responses before the SDK reads them.
//
// The two APIs differ in form: requests are built in request.go and responses.go, frames are read by the formats in frame.go and responses_frame.go.
// What is between and around them is shared: an event of the Responses API is added to the answer as the piece of chat completions that means the same.
package openai
