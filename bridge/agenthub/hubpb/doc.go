// Package hubpb is generated from hub.proto, which describes the wire of AgentHub's broker.
//
// To generate it again, install protoc, protoc-gen-go v1.36.11 and protoc-gen-go-grpc v1.6.2, and run go generate.
package hubpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative hub.proto
