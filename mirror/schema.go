package mirror

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cortex-orchestrator/cortex/transport"
)

// migrations are the steps to the present schema, in the order of their numbers. A step that was released is never changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

// minServer is the oldest version of PostgreSQL that can be used: views with the rights of who asks came with 15.
const minServer = 150000

// lockOf returns the number of an advisory lock. Both halves of the key are hashed, so that locks of other programs are not met by chance.
func lockOf(parts ...string) int64 {
	h := fnv.New64a()
	h.Write([]byte("cortex mirror\x00" + strings.Join(parts, "\x00")))
	return int64(h.Sum64()) //nolint:gosec // all bits are wanted
}

// migrate brings the schema up to date, each step in a transaction. Only one process does so at a time.
func migrate(ctx context.Context, conn *pgx.Conn) error {
	var server int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&server); err != nil {
		return err
	}
	if server < minServer {
		return transport.Permanent(fmt.Errorf("PostgreSQL %d is too old: 15 or later is needed", server/10000))
	}
	names, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", lockOf("schema")); err != nil {
		return err
	}
	defer conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", lockOf("schema")) //nolint:errcheck // it ends with the connection
	at, err := schemaOf(ctx, conn)
	if err != nil {
		return err
	}
	if at > len(names) {
		return transport.Permanent(fmt.Errorf("the schema is of a newer Cortex: it has version %d, and this one knows %d: upgrade this one", at, len(names)))
	}
	for i, name := range names[at:] {
		number := at + i + 1
		if n, err := strconv.Atoi(name.Name()[:3]); err != nil || n != number {
			return fmt.Errorf("migration %s has not the number %d", name.Name(), number)
		}
		text, err := migrations.ReadFile("migrations/" + name.Name())
		if err != nil {
			return err
		}
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS cortex; CREATE TABLE IF NOT EXISTS cortex.schema_version (version int PRIMARY KEY, name text NOT NULL, applied timestamptz NOT NULL DEFAULT now())"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(text)); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO cortex.schema_version (version, name) VALUES ($1, $2)", number, name.Name())
			return err
		})
		if err != nil {
			return fmt.Errorf("migration %s: %w", name.Name(), err)
		}
	}
	return nil
}

// schemaOf returns the version of the schema; 0 when there is none.
func schemaOf(ctx context.Context, conn *pgx.Conn) (version int, err error) {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('cortex.schema_version') IS NOT NULL").Scan(&there); err != nil || !there {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM cortex.schema_version").Scan(&version)
	return version, err
}

// isAbsent reports whether an error means that there is no mirror in the database.
func isAbsent(err error) bool {
	return errors.Is(err, errNoMirror) || slices.Contains([]string{"42P01", "3F000"}, codeOf(err))
}
