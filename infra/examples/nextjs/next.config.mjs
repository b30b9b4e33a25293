// libsql is a native module, so Next.js must not bundle it.
export default { serverExternalPackages: ["libsql"] };
