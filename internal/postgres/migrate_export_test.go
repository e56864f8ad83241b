package postgres

// With migrations of their own, the tests in postgres_test can be about migrating and not about the schema.
var (
	MigrateUpFiles       = migrateUp
	MigrateDownFiles     = migrateDown
	MigrationStatusFiles = migrationStatus
)
