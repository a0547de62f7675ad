// Package agentcard reads the descriptions of agents: A2A cards of version 1.0 and earlier, and AgentSpec documents, in JSON or YAML. It converts all
// of them to A2A 1.0 cards; what such a card has no field for is in the extension [ExtensionURI], which is read and written as a [Spec].
package agentcard
