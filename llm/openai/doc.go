// Package openai is a client for OpenAI and every endpoint that speaks its chat completions: Azure, Ollama, vLLM, llama.cpp,
// LM Studio, OpenRouter, Gemini's compatible endpoint, and many more. They agree about requests, less about answers, and
// hardly about errors, so between the SDK and the network stands a repair of what comes back.
package openai
