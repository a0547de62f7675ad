// Package openai is a client for OpenAI and other endpoints with its chat completions: Azure, Ollama, vLLM, llama.cpp, LM Studio, OpenRouter,
// Gemini's compatible endpoint, and many more. They agree about requests, less about answers, and hardly about errors, so the package normalises
// responses before the SDK reads them.
package openai
