package mirror

import (
	"context"
)

// beside copies the log, and the agents beside it.
func (m *Mirror) beside(ctx context.Context, c *copier) error { return c.copy(ctx) }
