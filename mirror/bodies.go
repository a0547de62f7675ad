package mirror

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// bodyReader compares the bodies of rows with the log: their checksums say what they were made of, and not what they are. PostgreSQL does it, since it has
// its own form of JSON. A row without a body, as where no words are mirrored, is left out.
type bodyReader struct {
	tx  pgx.Tx
	log int64

	versions []int64
	texts    []string
	size     int
}

// add has the row of a record compared, sooner or later.
func (b *bodyReader) add(ctx context.Context, r *Report, record *storage.Record) error {
	if record.Entry == nil {
		return nil
	}
	body, _ := cleanJSON(record.Data)
	b.versions, b.texts = append(b.versions, int64(record.Version)), append(b.texts, string(body)) //nolint:gosec // a sequence
	if b.size += len(body); b.size < maxBytes && len(b.versions) < maxRecords {
		return nil
	}
	return b.compare(ctx, r)
}

// compare compares the rows that are left.
func (b *bodyReader) compare(ctx context.Context, r *Report) error {
	if len(b.versions) == 0 {
		return nil
	}
	rows, err := b.tx.Query(ctx, `SELECT e.version FROM cortex.entries e JOIN unnest($2::bigint[], $3::text[]) AS l (version, body) ON e.version = l.version
		WHERE e.log = $1 AND CASE WHEN e.body IS NULL THEN false ELSE e.body <> l.body::jsonb END ORDER BY e.version`, b.log, b.versions, b.texts)
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	different, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	for _, version := range different {
		r.Different.add(version)
	}
	b.versions, b.texts, b.size = b.versions[:0], b.texts[:0], 0
	return nil
}
