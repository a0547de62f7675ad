// Package agentcard reads what agents say of themselves: A2A cards of version 1.0 and of the ones before it, and AgentSpec
// documents, in JSON or YAML. All become an A2A 1.0 card; what that has no field for is its extension [ExtensionURI], read and
// written as a [Spec].
package agentcard
