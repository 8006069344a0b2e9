# Packages of Debian, made by ./packages.sh: one for each component. packages.sh adds the field Multi-Arch. What they depend on is read from what they hold.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME mlrt)
set(CPACK_PACKAGE_VENDOR "the mlrt project")
set(CPACK_PACKAGE_CONTACT "maintainers <maintainers@users.noreply.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime libraries development packager)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME mlrt)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION misc)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "libtiff6, libsndfile1, libvulkan1")  # loaded when a file asks for them
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "runs machine-learning models from portable, signed containers
 mlrun and its manual pages.")

set(CPACK_DEBIAN_LIBRARIES_PACKAGE_NAME libmlrt1)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SUGGESTS "mlrt, libtiff6, libsndfile1, libvulkan1")
set(CPACK_COMPONENT_LIBRARIES_DESCRIPTION "libraries that run machine-learning models from portable, signed containers
 libmlrt, libmlrt-gpu and libmlio, for programs in C and C++ (mlrt-dev).")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME mlrt-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS libraries)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "headers, documents and examples of mlrt
 For programs in C and C++ that open containers: find_package(mlrt), pkg-config mlrt and mlio.")

set(CPACK_DEBIAN_PACKAGER_PACKAGE_NAME mlpack)
set(CPACK_DEBIAN_PACKAGER_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGER_PACKAGE_RECOMMENDS mlrt)
set(CPACK_COMPONENT_PACKAGER_DESCRIPTION "compiles machine-learning models into portable, signed containers
 mlpack builds one file of an ONNX model for many processors and devices; mlpack-oci moves such files through registries.")
include(CPack)
