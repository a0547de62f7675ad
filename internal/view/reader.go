package view

import (
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Reader is what the functions of this package read from. All fields but Tenant are required.
type Reader struct {
	Store     storage.Store
	Transport transport.Transport // has the files, whose sizes are shown
	Tenant    string
}
