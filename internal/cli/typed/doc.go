// Package typed explains what was typed to somebody who meant another command, another flag, or fewer arguments.
package typed
